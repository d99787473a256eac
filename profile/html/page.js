"use strict";

// The page shows the JSON of a profile (docs/profile.md): a flame graph of its
// stacks, a table of its functions, and the callers and callees of one of them.
const data = JSON.parse(document.getElementById("data").textContent);
const functions = data.functions;
const byId = id => document.getElementById(id);

// make makes an element: make("td", "number", "12").
function make(tag, className, text) {
  const e = document.createElement(tag);
  if (className) e.className = className;
  if (text !== undefined) e.textContent = text;
  return e;
}

// Of some profiles the value of the stacks is a number of calls or of other events, or
// the time of single calls, which may be short.
const counts = data.measure === "calls" || data.unit === "count";
const seconds = (counts ? n => count(n) : { wall: shortTime }[data.measure]) ||
  (data.total < 1e8 ? ns => (ns / 1e6).toFixed(3) + " ms" : ns => (ns / 1e9).toFixed(3) + " s");
const measured = total => counts ? `${count(total)} ${data.measure}` : ({ wall: "wall time" }[data.measure] || data.measure || "CPU time") + " " + seconds(total);

function shortTime(ns) {
  const [unit, size] = [["s", 1e9], ["ms", 1e6], ["us", 1e3]].find(u => ns >= u[1]) || ["ns", 1];
  return (ns / size).toFixed(size > 1 ? 3 : 0) + " " + unit;
}

const share = (part, whole) => (whole ? 100 * part / whole : 0).toFixed(1) + " %";
const count = n => n.toLocaleString("en-US").replaceAll(",", "\u202f");
const place = f => f.file ? f.file + (f.line ? ":" + f.line : "") : f.image || "";

const state = {
  root: null,        // of the tree of stacks
  zoom: null,        // the frame that is as wide as the graph
  current: null,     // the frame that keys move from
  chosen: -1,        // the function whose callers are shown
  match: null,       // of the search
  thread: "",        // whose stacks are shown; "": all
  icicles: false,    // the outermost function on top
  byCost: false,     // colours
  sort: data.hasTime ? "self" : "calls", down: true,
};

// --- The tree of stacks ---

// A frame is a function as called by the frames above it: with the time of all
// stacks that begin so.
function newFrame(f, parent) {
  return { f, parent, depth: parent ? parent.depth + 1 : 0, total: 0, self: 0, children: new Map(), at: 0, element: null };
}

function buildTree() {
  const root = newFrame(-1, null);
  for (const s of data.stacks || []) {
    if (state.thread && s.thread !== state.thread) continue;
    let frame = root;
    frame.total += s.self;
    for (const f of data.inverted ? [...s.functions].reverse() : s.functions) {
      let next = frame.children.get(f);
      if (!next) frame.children.set(f, next = newFrame(f, frame));
      next.total += s.self;
      frame = next;
    }
    frame.self += s.self;
  }
  // Wide frames first; begin tells where in the parent each is, in ns.
  const todo = [root];
  while (todo.length) {
    const frame = todo.pop();
    let at = frame.at;
    frame.list = [...frame.children.values()].sort((a, b) => b.total - a.total);
    for (const c of frame.list) {
      c.at = at;
      at += c.total;
      todo.push(c);
    }
  }
  state.root = state.zoom = state.current = root;
}

const nameOf = frame => frame.f < 0 ? "all" : functions[frame.f].name;

// --- The flame graph ---

const rowHeight = 18, leastWidth = 0.7;

function hash(s) {
  let h = 2166136261;
  for (let i = 0; i < s.length; i++) h = Math.imul(h ^ s.charCodeAt(i), 16777619);
  return (h >>> 0) / 4294967296;
}

function color(frame) {
  if (frame.f < 0) return "#c9ced6";
  const f = functions[frame.f];
  if (state.byCost) {
    const part = Math.sqrt(frame.self / Math.max(1, state.root.total));
    return `hsl(${50 - 45 * Math.min(1, 2 * part)} 90% ${78 - 22 * Math.min(1, 2 * part)}%)`;
  }
  // Files of one image have neighbouring hues.
  const kernel = f.image === "kernel";
  const hue = kernel ? 205 : 12 + 45 * hash(f.image || "") + 28 * hash(f.file || f.name);
  return `hsl(${hue} ${kernel ? 45 : 78}% ${66 + 12 * hash(f.name)}%)`;
}

function visible() {
  // The way to the zoomed frame, then what it called.
  const frames = [];
  for (let p = state.zoom.parent; p; p = p.parent) frames.push({ frame: p, left: 0, width: 1, outer: true });
  const scale = 1 / Math.max(1, state.zoom.total), width = Math.max(200, byId("graph").clientWidth);
  const todo = [state.zoom];
  while (todo.length) {
    const frame = todo.pop();
    const w = frame.total * scale;
    if (w * width < leastWidth) continue;
    frames.push({ frame, left: (frame.at - state.zoom.at) * scale, width: w });
    todo.push(...frame.list);
  }
  return frames;
}

function drawGraph() {
  const graph = byId("graph");
  graph.replaceChildren();
  byId("tip").hidden = byId("path").hidden = !data.stacks;
  if (!data.stacks) {
    const why = data.hasTime ? "This profile has times and counts, but no stacks: no flame graph can be made of it."
      : "Exact counts of calls are not stacks: no flame graph can be made of them.";
    graph.append(make("div", "none", why + " “footfall profile -- PROGRAM” samples stacks."));
    graph.removeAttribute("tabindex");
    return;
  }
  const frames = visible();
  const depth = Math.max(...frames.map(v => v.frame.depth));
  const inner = make("div");
  inner.style.cssText = `position:relative;height:${(depth + 1) * rowHeight}px`;
  for (const v of frames) {
    const e = make("div", "frame");
    const row = state.icicles ? v.frame.depth : depth - v.frame.depth;
    e.style.cssText = `left:${100 * v.left}%;width:${100 * v.width}%;top:${row * rowHeight}px;background:${color(v.frame)}`;
    if (v.width * graph.clientWidth > 28) e.textContent = nameOf(v.frame);
    else e.classList.add("narrow");
    if (v.outer) e.classList.add("outer");
    e.setAttribute("role", "treeitem");
    e.setAttribute("aria-label", describe(v.frame));
    e.frame = v.frame;
    v.frame.element = e;
    inner.append(e);
  }
  state.drawn = frames.map(v => v.frame);
  graph.append(inner);
  // Flames grow upwards: their roots must be in sight.
  graph.scrollTop = state.icicles ? 0 : graph.scrollHeight;
  drawPath();
  mark();
  moveTo(state.current.element?.isConnected ? state.current : state.zoom);
}

function describe(frame) {
  const parts = [nameOf(frame), seconds(frame.total), share(frame.total, state.root.total)];
  return parts.join(", ");
}

function drawPath() {
  const path = byId("path");
  path.replaceChildren();
  const way = [];
  for (let p = state.zoom; p; p = p.parent) way.unshift(p);
  way.forEach((frame, i) => {
    if (i) path.append(" › ");
    const b = make("button", "", nameOf(frame));
    b.onclick = () => zoomTo(frame);
    path.append(b);
  });
}

function showTip(frame) {
  const tip = byId("tip");
  tip.replaceChildren(make("b", "", nameOf(frame)), ` ${seconds(frame.total)} (${share(frame.total, state.root.total)}), ${seconds(frame.self)} in itself`);
  if (frame.f >= 0) {
    const f = functions[frame.f];
    if (f.calls) tip.append(`, ${count(f.calls)} calls in all`);
    tip.append(`  ${f.inlined ? "(inlined) " : ""}${place(f)}`);
  }
}

function zoomTo(frame) {
  state.zoom = state.current = frame;
  drawGraph();
}

function moveTo(frame) {
  if (!frame) return;
  state.current.element?.classList.remove("current");
  state.current = frame;
  if (frame.element) {
    frame.element.classList.add("current");
    if (document.activeElement === byId("graph")) frame.element.scrollIntoView({ block: "nearest" });
  }
  showTip(frame);
}

// mark shows what was searched for and which function is chosen.
function mark() {
  for (const frame of state.drawn || []) {
    const c = frame.element.classList;
    c.toggle("hit", frame.f >= 0 && !!state.match && state.match(functions[frame.f].name));
    c.toggle("chosen", frame.f >= 0 && frame.f === state.chosen);
  }
}

// --- Search ---

function search(text) {
  state.match = null;
  byId("found").textContent = "";
  if (text) {
    const exp = /^\/(.+?)\/?$/.exec(text);
    try {
      const re = exp ? new RegExp(exp[1], "i") : null;
      const low = text.toLowerCase();
      state.match = re ? name => re.test(name) : name => name.toLowerCase().includes(low);
    } catch (e) {
      byId("found").textContent = "not a regular expression yet";
    }
  }
  if (state.match) {
    const n = functions.filter(f => state.match(f.name)).length;
    let part = "";
    if (data.stacks) {
      let sum = 0, all = 0;
      for (const s of data.stacks) {
        if (state.thread && s.thread !== state.thread) continue;
        all += s.self;
        if (s.functions.some(f => state.match(functions[f].name))) sum += s.self;
      }
      part = `, ${share(sum, all)} of the ${counts ? data.measure : "time"}`;
    }
    byId("found").textContent = `${n} function${n === 1 ? "" : "s"}${part}`;
  }
  if (data.stacks) mark();
  drawTable();
}

// --- The table ---

const mostRows = 500;
const columns = [
  { key: "self", title: "self", show: data.hasTime, cell: f => seconds(f.self), share: f => f.self },
  { key: "total", title: data.estimated ? "total (estimate)" : "total", show: data.hasTime && (!data.estimated || data.hasCalls), cell: f => seconds(f.total), share: f => f.total },
  { key: "calls", title: "calls", show: data.hasCalls, cell: f => f.calls ? count(f.calls) : "" },
  { key: "name", title: "function", show: true, text: true },
].filter(c => c.show);

function drawHead() {
  const row = document.querySelector("#functions thead tr");
  row.replaceChildren();
  for (const c of columns) {
    const th = make("th", c.text ? "text" : "");
    const arrow = state.sort === c.key ? (state.down ? " ▼" : " ▲") : "";
    const b = make("button", "", c.title + arrow);
    b.onclick = () => {
      state.down = state.sort === c.key ? !state.down : c.key !== "name";
      state.sort = c.key;
      drawHead();
      drawTable();
    };
    if (arrow) th.setAttribute("aria-sort", state.down ? "descending" : "ascending");
    th.append(b);
    row.append(th);
  }
}

function rows() {
  const all = functions.map((f, i) => i).filter(i => !state.match || state.match(functions[i].name));
  const key = state.sort, sign = state.down ? -1 : 1;
  return all.sort((a, b) => {
    const x = functions[a][key], y = functions[b][key];
    return sign * (x < y ? -1 : x > y ? 1 : 0) || a - b;
  });
}

function drawTable() {
  const body = document.querySelector("#functions tbody");
  const all = rows();
  body.replaceChildren(...all.slice(0, mostRows).map(i => {
    const f = functions[i];
    const tr = make("tr", i === state.chosen ? "chosen" : "");
    tr.index = i;
    for (const c of columns) {
      if (c.text) {
        const td = make("td", "text", f.name + (f.inlined ? " (inlined)" : ""));
        td.append(make("span", "place", place(f)));
        tr.append(td);
        continue;
      }
      const td = make("td", "number", c.cell(f));
      if (c.share) td.append(bar(c.share(f), data.total));
      tr.append(td);
    }
    return tr;
  }));
  byId("more").textContent = all.length > mostRows ? `${count(all.length - mostRows)} more; search to see them` : all.length ? "" : "nothing found";
}

function bar(part, whole) {
  const s = make("span", "share");
  const b = make("span", "bar");
  b.style.width = `${whole ? Math.min(60, Math.max(0, 60 * part / whole)) : 0}px`;
  s.title = share(part, whole);
  s.append(b);
  return s;
}

// --- Callers and callees ---

const callers = functions.map(() => []), callees = functions.map(() => []);
for (const a of data.arcs) {
  callees[a.caller].push(a);
  callers[a.callee].push(a);
}

function choose(i) {
  state.chosen = i;
  for (const tr of document.querySelectorAll("#functions tbody tr")) tr.classList.toggle("chosen", tr.index === i);
  if (data.stacks) mark();
  const part = byId("function-part");
  if (i < 0) {
    part.replaceChildren(make("p", "place", "Choose a function to see who calls it and what it calls."));
    return;
  }
  const f = functions[i];
  const facts = [];
  if (data.hasTime) facts.push(`${seconds(f.self)} in itself (${share(f.self, data.total)})`, `${seconds(f.total)} with what it calls (${share(f.total, data.total)})`);
  if (f.calls) facts.push(`${count(f.calls)} calls`);
  part.replaceChildren(make("h2", "", f.name), make("div", "place", [place(f), f.file ? f.image : "", f.symbol].filter(Boolean).join(" · ")), make("div", "", facts.join(", ")));
  arcs(part, data.estimated ? "callers, with their estimated part of the time" : "callers", callers[i], a => a.caller, f);
  arcs(part, data.estimated ? "callees, with estimated times" : "callees", callees[i], a => a.callee, f);
  source(part, f);
}

function arcs(part, title, list, other, f) {
  part.append(make("h3", "", title));
  if (!list.length) {
    part.append(make("div", "place", "none"));
    return;
  }
  const table = make("table");
  for (const a of [...list].sort((x, y) => y.time - x.time || y.calls - x.calls)) {
    const tr = make("tr");
    if (data.hasTime) {
      const td = make("td", "number", seconds(a.time));
      td.append(bar(a.time, f.total));
      tr.append(td);
    }
    if (data.hasCalls) tr.append(make("td", "number", a.calls ? count(a.calls) : ""));
    const td = make("td", "text");
    const b = make("button", "", functions[other(a)].name);
    b.onclick = () => choose(other(a));
    td.append(b);
    tr.append(td);
    table.append(tr);
  }
  part.append(table);
}

// --- Source ---

const around = 3; // lines shown before and after one that costs

// source shows the lines of a function with what each costs.
function source(part, f) {
  const texts = f.file && data.sources?.[f.file];
  if (!texts || !f.lines?.length) return;
  part.append(make("h3", "", "source"));
  const costs = new Map(f.lines.map(l => [l.line, l]));
  const near = new Set(f.lines.flatMap(l => Array.from({ length: 2 * around + 1 }, (_, i) => l.line - around + i)));
  const table = make("table", "source");
  const shown = [["self", seconds], ["total", seconds], ["entered", count], ["calls", count]]
    .filter(([title]) => f.lines.some(l => l[title]));
  const head = make("tr");
  for (const [title] of shown) head.append(make("th", "", title));
  head.append(make("th", "", "line"), make("th"));
  table.append(head);
  let last = 0;
  for (const n of [...near].sort((a, b) => a - b)) {
    if (texts[n] === undefined) continue;
    const l = costs.get(n) || {};
    const tr = make("tr");
    if (last && n > last + 1) tr.className = "gap";
    last = n;
    for (const [title, text] of shown) tr.append(make("td", "number", l[title] ? text(l[title]) : ""));
    tr.append(make("td", "number line", String(n)), make("td", "code", texts[n]));
    if (l.self) tr.style.setProperty("--heat", `${Math.round(60 * l.self / Math.max(1, f.self))}%`);
    table.append(tr);
  }
  const box = make("div", "listing");
  box.tabIndex = 0;
  box.append(table);
  part.append(box);
}

// --- Keys and pointer ---

function neighbour(step) {
  // Frames of one row, by their places.
  const row = state.drawn.filter(f => f.depth === state.current.depth).sort((a, b) => a.at - b.at);
  return row[row.indexOf(state.current) + step];
}

const up = () => state.icicles ? state.current.parent : firstChild();
const down = () => state.icicles ? firstChild() : state.current.parent;
const firstChild = () => state.current.list.find(c => c.element?.isConnected);

function graphKey(e) {
  const move = { ArrowLeft: () => neighbour(-1), ArrowRight: () => neighbour(1), ArrowUp: up, ArrowDown: down }[e.key];
  if (move) {
    moveTo(move());
  } else if (e.key === "Enter") {
    choose(state.current.f);
    zoomTo(state.current);
  } else if (e.key === "Backspace") {
    zoomTo(state.zoom.parent || state.root);
  } else {
    return;
  }
  e.preventDefault();
}

function tableKey(e) {
  const step = { ArrowUp: -1, ArrowDown: 1 }[e.key];
  if (!step) return;
  e.preventDefault();
  const trs = [...document.querySelectorAll("#functions tbody tr")];
  const next = trs[trs.findIndex(tr => tr.index === state.chosen) + step];
  if (next) {
    choose(next.index);
    next.scrollIntoView({ block: "nearest" });
  }
}

function pageKey(e) {
  const box = byId("search");
  if (e.key === "Escape") {
    if (box.value) {
      box.value = "";
      search("");
    } else if (state.zoom !== state.root) {
      zoomTo(state.root);
    } else {
      choose(-1);
    }
    if (data.stacks) byId("graph").focus();
    return;
  }
  if (e.target === box || e.ctrlKey || e.metaKey || e.altKey) return;
  switch (e.key) {
  case "/":
    e.preventDefault();
    box.focus();
    box.select();
    break;
  case "i":
    state.icicles = !state.icicles;
    drawGraph();
    break;
  case "c":
    state.byCost = !state.byCost;
    drawGraph();
    break;
  case "?":
    toggleHelp();
  }
}

function toggleHelp() {
  const help = byId("help");
  help.hidden = !help.hidden;
  byId("help-button").setAttribute("aria-expanded", String(!help.hidden));
}

function start() {
  document.querySelector("h1").textContent = data.title;
  const facts = [];
  if (data.hasTime) facts.push(measured(data.total) + (data.period ? ` in ${count(data.samples || Math.round(data.total / data.period))} samples` : ""));
  if (data.hasCalls) facts.push(`${count(functions.reduce((n, f) => n + f.calls, 0))} calls`);
  facts.push(`${count(functions.length)} functions`);
  byId("summary").textContent = facts.join(", ");
  const notes = [...(data.notes || [])];
  if (data.estimated) notes.push("Total times are estimates: a callee's time is shared out among its callers by their numbers of calls.");
  byId("notes").append(...notes.map(n => make("p", "", n)));

  const threads = [...new Set((data.stacks || []).map(s => s.thread || ""))].sort();
  if (threads.length > 1) {
    byId("threads").hidden = false;
    const select = document.querySelector("#threads select");
    select.append(new Option("all", ""), ...threads.map(t => new Option(t, t)));
    select.onchange = () => {
      state.thread = select.value;
      buildTree();
      drawGraph();
      search(byId("search").value);
    };
  }
  byId("search").oninput = e => search(e.target.value);
  byId("help-button").onclick = toggleHelp;
  const graph = byId("graph");
  graph.onclick = e => {
    if (!e.target.frame) return;
    choose(e.target.frame.f);
    zoomTo(e.target.frame);
  };
  graph.onmouseover = e => { if (e.target.frame) showTip(e.target.frame); };
  graph.onmouseleave = () => { if (data.stacks) showTip(state.current); };
  graph.onkeydown = graphKey;
  const body = document.querySelector("#functions tbody");
  body.onclick = e => {
    const tr = e.target.closest("tr");
    if (tr) choose(tr.index);
  };
  body.onkeydown = tableKey;
  document.onkeydown = pageKey;
  let timer;
  window.onresize = () => {
    clearTimeout(timer);
    timer = setTimeout(drawGraph, 100);
  };
  buildTree();
  drawHead();
  drawTable();
  drawGraph();
  choose(functions.length ? 0 : -1);
}

start();
