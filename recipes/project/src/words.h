/* Words are separated by blanks. */
int count_words(const char *text);

/* The length of the longest word, 0 if there is none. */
int longest_word(const char *text);
