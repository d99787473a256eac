#include "h.h"
#include <vector>
#include <string>
#include <map>
#include <functional>
#include <memory>
#include <tuple>
#include <setjmp.h>
#include <stdexcept>
struct Base { virtual ~Base() {} virtual int f(int x) { return x; } };
struct D1 : Base { int f(int x) override { return x > 3 ? x : -x; } ~D1() { std::string s("x"); (void)s; } };
struct VB : virtual Base { int q; VB() : q(3) {} };
struct VD : VB { VD() { q++; } int f(int x) override { return q + x; } };
static std::map<std::string,int> table = {{"a",1},{"b",2}};
template<class T, int N> struct Arr { T v[N]; T sum() const { T s = T(); for (int i = 0; i < N; i++) s += v[i]; return s; }
  template<class U> operator U() const { return U(sum()); }
  Arr() { for (auto &x : v) x = T(1); } };
template<class U> struct Box { U u; Box(U x) : u(x) {} };
struct Conv { template<class T> operator Box<T>() const { return Box<T>(T(3)); } template<class T> operator T*() const { return nullptr; } };
template<typename... A> int count_args(A&&... a) { return sizeof...(a) + helper(sizeof...(a)); }
template<int K> int inst(int x) { if (x > K) return x * K; else if (x == K) return 0; return -1; }
template<int... I> int all(int x) { int r = 0; int t[] = { (r += inst<I>(x))... }; (void)t; return r; }
static jmp_buf jb;
static void jumper(int n) { if (n > 2) longjmp(jb, n); }
int useset() { volatile int k = 0; int r = setjmp(jb); if (r) return r; for (; k < 5; k++) jumper(k); return 0; }
int sw(int c) { switch (c) { case 1: return 10; case 2: { for (int i = 0; i < c; i++) { switch (i) { case 0: continue; default: break; } if (i) break; } } /* fall */ case 3: return 7; case 'x' ... 'z': return 1; default: return -1; } }
int go(int n) { int i = 0;
again: if (i++ < n) goto again; if (n == 77) goto out; i += 2;
out: return i; }
int thrower(int n) { try { if (n == 1) throw std::runtime_error("x"); if (n == 2) throw 5; std::string s("abc"); return s.size(); } catch (const std::exception &e) { return 1; } catch (int i) { return i; } }
int lam(int n) { auto f = [n](int x) { return x > n ? x : n; }; auto g = [&](auto y) { return f(y) + 1; }; std::function<int(int)> h = f; return g(3) + g(4L) + h(2); }
#define MAC(x) do { if (x) { v++; } else { v--; } while (0); for (int q = 0; q < 3; q++) { v += q; } } while (0)
int macro(int v) { MAC(v > 3); MAC(v < 3); return v; }
#line 500 "virt.y"
int mapped(int a) { return a && a > 3 || a == -4; }
#line 61 "features.cc"
int one(int x) { while (x > 0) { x -= 3; if (x == 5) x = 1; } do x++; while (x < 4); for (int i = 0, j = 9; i < j; i++, j--) if (i * j % 2 && x) x += i; return x; }
void moved(std::unique_ptr<int> p) { std::tuple<int, std::unique_ptr<int>> t(1, std::move(p)); std::vector<std::pair<std::string, std::vector<int>>> v; v.emplace_back("k", std::vector<int>{1,2}); v.emplace_back(); }
int cond3(int a, int b, int c) { if ((a && b) || (c && !a)) return 1; return (a || b) && (b || c) ? 2 : 3; }
namespace { int anon(int z) { return z ? z : anon(z + 1); } }
extern "C" int extra(int);
int main(int argc, char **argv)
{
  Base *b = new D1; int r = b->f(argc); delete b;
  { VD vd; r += vd.f(2); }
  Arr<int,3> a3; Arr<double,4> a4; r += a3.sum() + (int)a4.sum() + (long)a3;
  Box<int> bi = Conv(); char *cp = Conv(); r += bi.u + (cp != nullptr);
  r += count_args(1, 2.0, "x") + count_args();
  r += all<0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25,26,27,28,29,30,31,32,33,34,35,36,37,38,39,40>(7);
  r += useset() + sw(2) + sw('y') + go(4) + thrower(1) + thrower(2) + thrower(3) + lam(2) + macro(4) + mapped(2) + one(20) + cond3(1,0,1) + cond3(0,0,0) + anon(0) + extra(2);
  moved(std::unique_ptr<int>(new int(3)));
  printf("%d\n", r); return 0;
}
