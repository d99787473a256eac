// A program with a bit of everything that a page of C shows.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Classifies a number:
 * over several lines of comment. */
static const char *kind(int n) {
    if (n < 0 || n > 1000)
        return "out <of> & \"range\"";
    switch (n % 3) {
    case 0:
        return "fizz";
    case 1:
        return "one";
    default:
        return n == 5 ? "buzz" : "other";
    }
}

static int never_called(int n) {
    int sum = 0;
    for (int i = 0; i < n; i++) {
        if (i & 1)
            sum += i;
    }
    return sum;
}

static void leave(int status) {
    printf("leaving with %d\n", status);
    exit(status);
}

int main(int argc, char **argv) {
    long total = 0;
    for (long i = 0; i < 200000; i++)
        total += i & 3;
    for (int i = 0; i < 6; i++)
        puts(kind(i));
    if (argc > 3)
        printf("%d %s\n", never_called(argc), argv[1]);
    printf("%ld %zu\n", total, strlen("\t\\ \" '"));
    leave(0);
}
