#include "../src/words.h"

int main(void)
{
	return longest_word("one two  three") == 5 ? 0 : 1;
}
