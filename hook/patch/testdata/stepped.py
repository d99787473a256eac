# Steps through what the program of stepped.c calls after "plain", in gdb, and looks at the
# callers that gdb finds at each instruction: they must be those that there are, with what is
# in the registers of drive. Prints how many steps there were, how many of them in the ranges
# of FROM-TO,... ($ranges), and how many chains were wrong.
import os

import gdb

CALLERS = {"drive": "plain", "outer": "drive", "many": "outer", "pushes": "many", "framed": "pushes", "leaf": "framed", "jumps": "pushes", "jumped": "pushes"}
REGISTERS = {"rbx": 0x1003, "rbp": 0x1006, "r12": 0x100C, "r13": 0x100D, "r14": 0x100E, "r15": 0x100F}
ranges = [[int(end, 16) for end in r.split("-")] for r in gdb.convenience_variable("ranges").string().split(",")]


def chain(frame):
    """The functions of a frame and its callers, and whether drive, if it called, has its registers."""
    names, right = [], True
    while frame is not None and len(names) < 32:
        name = frame.name()
        if frame.type() == gdb.TAILCALL_FRAME:
            pass  # which gdb makes of what debug information says of jumps
        elif name in CALLERS or name == "plain":
            names.append(name)
        if name == "drive" and frame.newer() is not None:
            right = all(int(frame.read_register(r)) == v for r, v in REGISTERS.items())
        if name == "plain":
            break
        frame = frame.older()
    return names, right


gdb.execute("set pagination off")
gdb.execute("tbreak *drive", to_string=True)
print("ready", flush=True)
gdb.execute("continue", to_string=True)
steps = within = wrong = 0
last = "drive"
while True:
    gdb.execute("stepi", to_string=True)
    frame = gdb.newest_frame()
    pc, name = frame.pc(), frame.name()
    if name == "plain":
        break
    steps += 1
    ours = any(low <= pc < high for low, high in ranges)
    within += ours
    if name in CALLERS:
        last = name
    caller = CALLERS[last] if ours else last
    expected = [caller]
    while caller != "plain":
        caller = CALLERS[caller]
        expected.append(caller)
    names, right = chain(frame)
    if names != expected or not right:
        wrong += 1
        if wrong <= 5:
            os.write(2, f"at {pc:x}, after {last}: {names}, registers {right}\n".encode())
gdb.execute("detach", to_string=True)
print(f"{steps} steps {within} within {wrong} wrong", flush=True)
