package unwind

// The names of DWARF are kept as the standard and readelf have them.

// Call frame instructions, DWARF 5, section 7.24. The first three have an
// operand in their low six bits.
const (
	DW_CFA_advance_loc byte = 0x40 // delta
	DW_CFA_offset      byte = 0x80 // register; ULEB128 offset
	DW_CFA_restore     byte = 0xc0 // register

	DW_CFA_nop                byte = 0x00
	DW_CFA_set_loc            byte = 0x01 // address
	DW_CFA_advance_loc1       byte = 0x02 // 1-byte delta
	DW_CFA_advance_loc2       byte = 0x03 // 2-byte delta
	DW_CFA_advance_loc4       byte = 0x04 // 4-byte delta
	DW_CFA_offset_extended    byte = 0x05 // ULEB128 register, ULEB128 offset
	DW_CFA_restore_extended   byte = 0x06 // ULEB128 register
	DW_CFA_undefined          byte = 0x07 // ULEB128 register
	DW_CFA_same_value         byte = 0x08 // ULEB128 register
	DW_CFA_register           byte = 0x09 // ULEB128 register, ULEB128 register
	DW_CFA_remember_state     byte = 0x0a
	DW_CFA_restore_state      byte = 0x0b
	DW_CFA_def_cfa            byte = 0x0c // ULEB128 register, ULEB128 offset
	DW_CFA_def_cfa_register   byte = 0x0d // ULEB128 register
	DW_CFA_def_cfa_offset     byte = 0x0e // ULEB128 offset
	DW_CFA_def_cfa_expression byte = 0x0f // block
	DW_CFA_expression         byte = 0x10 // ULEB128 register, block
	DW_CFA_offset_extended_sf byte = 0x11 // ULEB128 register, SLEB128 offset
	DW_CFA_def_cfa_sf         byte = 0x12 // ULEB128 register, SLEB128 offset
	DW_CFA_def_cfa_offset_sf  byte = 0x13 // SLEB128 offset
	DW_CFA_val_offset         byte = 0x14 // ULEB128 register, ULEB128 offset
	DW_CFA_val_offset_sf      byte = 0x15 // ULEB128 register, SLEB128 offset
	DW_CFA_val_expression     byte = 0x16 // ULEB128 register, block

	// DWARF for the Arm 64-bit Architecture: the return address is signed from
	// here on, or no longer; 0x2d is GNU_window_save on SPARC.
	DW_CFA_AARCH64_negate_ra_state_with_pc byte = 0x2c
	DW_CFA_AARCH64_negate_ra_state         byte = 0x2d
	// Linux Standard Base 5, core, section 10.5.
	DW_CFA_GNU_args_size byte = 0x2e // ULEB128 size
)

// Encodings of pointers in .eh_frame, Linux Standard Base 5, core, section 10.5:
// the low half is the format, the high one what the value is relative to.
const (
	DW_EH_PE_absptr  byte = 0x00
	DW_EH_PE_uleb128 byte = 0x01
	DW_EH_PE_udata2  byte = 0x02
	DW_EH_PE_udata4  byte = 0x03
	DW_EH_PE_udata8  byte = 0x04
	DW_EH_PE_sleb128 byte = 0x09
	DW_EH_PE_sdata2  byte = 0x0a
	DW_EH_PE_sdata4  byte = 0x0b
	DW_EH_PE_sdata8  byte = 0x0c

	DW_EH_PE_pcrel byte = 0x10 // to the field itself

	DW_EH_PE_omit byte = 0xff
)

// Operations of expressions, DWARF 5, section 7.7.1: those that unwinding uses.
const (
	DW_OP_deref       byte = 0x06
	DW_OP_const1u     byte = 0x08
	DW_OP_const1s     byte = 0x09
	DW_OP_const2u     byte = 0x0a
	DW_OP_const2s     byte = 0x0b
	DW_OP_const8u     byte = 0x0e
	DW_OP_consts      byte = 0x11
	DW_OP_dup         byte = 0x12
	DW_OP_drop        byte = 0x13
	DW_OP_swap        byte = 0x16
	DW_OP_and         byte = 0x1a
	DW_OP_minus       byte = 0x1c
	DW_OP_mul         byte = 0x1e
	DW_OP_neg         byte = 0x1f
	DW_OP_not         byte = 0x20
	DW_OP_or          byte = 0x21
	DW_OP_plus        byte = 0x22
	DW_OP_plus_uconst byte = 0x23
	DW_OP_shl         byte = 0x24
	DW_OP_shr         byte = 0x25
	DW_OP_shra        byte = 0x26
	DW_OP_xor         byte = 0x27
	DW_OP_bra         byte = 0x28
	DW_OP_eq          byte = 0x29
	DW_OP_ge          byte = 0x2a
	DW_OP_gt          byte = 0x2b
	DW_OP_le          byte = 0x2c
	DW_OP_lt          byte = 0x2d
	DW_OP_ne          byte = 0x2e
	DW_OP_skip        byte = 0x2f
	DW_OP_lit0        byte = 0x30 // up to lit31
	DW_OP_lit31       byte = 0x4f
	DW_OP_breg0       byte = 0x70 // up to breg31
	DW_OP_deref_size  byte = 0x94
)

// Numbers of registers: System V ABI for AMD64, figure 3.36, for i386, table 2.14, and
// DWARF for the Arm 64-bit Architecture, table 1.
const (
	AMD64_RBX = 3
	AMD64_RBP = 6
	AMD64_RSP = 7
	AMD64_R12 = 12
	AMD64_RIP = 16 // the return address

	I386_ESP = 4
	I386_EBP = 5
	I386_EIP = 8

	ARM64_X29 = 29 // the frame pointer
	ARM64_X30 = 30 // the return address
	ARM64_SP  = 31
)
