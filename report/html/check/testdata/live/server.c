/* Whoever writes a or b to ask gets an answer from first or second. */
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

static void answer(const char *text)
{
	int out = open("answer", O_WRONLY);
	if (write(out, text, 1) != 1)
		perror("answer");
	close(out);
}

static void first(void)
{
	answer("a");
}

static void second(void)
{
	answer("b");
}

int main(void)
{
	for (;;) {
		char c = 0;
		int in = open("ask", O_RDONLY);
		if (read(in, &c, 1) < 0)
			return 1;
		close(in);
		switch (c) {
		case 'a': first(); break;
		case 'b': second(); break;
		}
	}
}
