#include "../src/words.h"

int main(void)
{
	return count_words("one two  three") == 3 ? 0 : 1;
}
