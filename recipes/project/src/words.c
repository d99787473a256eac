#include "words.h"

static int is_blank(char c)
{
	return c == ' ' || c == '\t' || c == '\n';
}

int count_words(const char *text)
{
	int words = 0;
	for (int in_word = 0; *text; text++) {
		if (is_blank(*text))
			in_word = 0;
		else if (!in_word)
			in_word = ++words;
	}
	return words;
}

int longest_word(const char *text)
{
	int longest = 0;
	for (int length = 0; *text; text++) {
		length = is_blank(*text) ? 0 : length + 1;
		if (length > longest)
			longest = length;
	}
	return longest;
}
