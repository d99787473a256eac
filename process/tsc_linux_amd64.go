package process

// Ticks reads the processor's time-stamp counter, which all processes share.
func Ticks() uint64
