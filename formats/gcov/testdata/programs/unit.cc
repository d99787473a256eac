#include "./h.h"
#include "sub/../sub/x.h"
#include <string>
static int st = shared(3);
extern "C" int extra(int n) { int r = shared(n) + tmax(n, 3) + tmax(2.0, 1.0) + helper(n) + st + subx(n); if (n == 99) { std::string s = std::to_string(n); r += s.size(); } return r; }
int never(int n) { if (n) return 1; return 2; }
