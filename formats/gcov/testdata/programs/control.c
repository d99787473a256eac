#include <stdio.h>
#include <stdlib.h>
static int dispatch(int n) { static void *tab[] = { &&l0, &&l1, &&l2 }; int r = 0; goto *tab[n % 3]; l0: r += 1; l1: r += 10; l2: r += 100; return r; }
static int nested(int n) { int acc = 0; int add(int k) { acc += k; return acc > 10 ? acc : 0; } for (int i = 0; i < n; i++) add(i); return acc; }
static void die(int n) { if (n > 100) exit(3); if (n > 50) abort(); }
int big(int a, int b, int c, int d) { return a && b && c && d ? a | b : (a || b) && (c || d); }
int inl(int x) { int t = 0; for (int i = 0; i < x; i++) for (int j = 0; j < i; j++) { if ((i ^ j) & 1) continue; if (i * j > 40) break; t += i * j; } return t; }
int tern(int x) { return x > 5 ? x > 10 ? 3 : 2 : x < 0 ? -1 : 0; }
int oneline(int x) { int s = 0; while (x--) { if (x % 3 == 0) s++; else if (x % 5 == 0) s += 2; else { for (int k = 0; k < 2; k++) s += k; } } return s; }
void unused(void) { puts("no"); }
int main(void)
{
  int r = 0;
  for (int i = 0; i < 1234; i++) r += dispatch(i);
  r += nested(7); die(1); r += big(1,1,0,1) + big(1,1,1,1) + big(0,0,1,1); r += inl(12) + tern(7) + tern(-2) + oneline(1000);
  switch (r & 3) { case 0: r++; break; case 1: r--; case 2: r += 2; break; }
  printf("%d\n", r);
  exit(0);
}
