#include "table.h"

#include <stdio.h>
#include <string.h>

enum kind { NUMBER, PLUS, MINUS, TIMES, END, BAD };

static const char *at;
static int number;

static enum kind next(void)
{
again:
	switch (*at) {
	case 0:
		return END;
	case ' ':
	case '\t':
		at++;
		goto again;
	case '+': at++; return PLUS;
	case '-': at++; return MINUS;
	case '*': at++; return TIMES;
	case '0': case '1': case '2': case '3': case '4':
	case '5': case '6': case '7': case '8': case '9':
		for (number = 0; *at >= '0' && *at <= '9'; at++) number = number * 10 + *at - '0';
		return NUMBER;
	default:
		return BAD;
	}
}

static int evaluate(const char *text, int *result)
{
	int value = 0, sign = 1;
	enum kind kind;
	at = text;
	do {
		if (next() != NUMBER)
			return -1;
		int product = number;
		while ((kind = next()) == TIMES) {
			if (next() != NUMBER)
				return -1;
			product *= number;
		}
		value += sign * product;
		sign = kind == MINUS ? -1 : 1;
	} while (kind == PLUS || kind == MINUS);
	*result = value;
	return kind == END ? 0 : -1;
}

static int unused(int n)
{
	if (n > 3 && n < 9)
		return n;
	return n ? unused(n - 1) : 0;
}

static int longest(int count, char **words)
{
	int most = 0;
	while (count-- > 0) {
		int n = (int)strlen(words[count]);
		if (n > most ||
		    (n == most &&
		     words[count][0] == 'x'))
			most = n;
	}
	return most;
}

int main(int argc, char **argv)
{
	static const char *const sums[] = { "1 + 2", "2*3*4 - 5", "7 -", "8 % 3", "12" };
	struct table t = { 0 };
	int failed = 0;
	for (unsigned i = 0; i < sizeof sums / sizeof *sums; i++) {
		int value;
		if (evaluate(sums[i], &value)) { failed++; continue; }
		table_put(&t, sums[i], value);
	}
	table_put(&t, "12", 13); table_put(&t, "one", 1); table_put(&t, "two", 2);
	for (int i = 1; i < argc; i++) {
		struct entry *e = table_find(&t, argv[i]);
		if (e && e->value > 0)
			printf("%s is %d\n", e->key, e->value);
		else if (!e)
			printf("%s is not there\n", argv[i]);
	}
	int left = table_remove(&t, "one") + table_remove(&t, "three") + table_size(&t);
	table_clear(&t);
	return failed == 2 && left == 5 && longest(argc - 1, argv + 1) == 3 ? 0 : unused(argc);
}
