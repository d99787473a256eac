package process

// Ticks reads the system's counter (CNTVCT_EL0), which all processes share.
func Ticks() uint64
