#pragma once
#include <stdio.h>
static inline int helper(int n) { int s = 0; for (int i = 0; i < n; i++) { if (i & 1) s += i; else s -= i; } return s; }
inline int shared(int n) { return n > 2 ? n * 2 : n; }
template<class T> T tmax(T a, T b) { return a > b ? a : b; }
