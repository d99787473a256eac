inline int subx(int n) { return n ? n : 5; }
