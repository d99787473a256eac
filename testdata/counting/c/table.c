#include "table.h"

#include <stdlib.h>
#include <string.h>

static int same(const struct entry *e, const char *key) { return strcmp(e->key, key) == 0; }

static struct entry **bucket(struct table *t, const char *key)
{
	return &t->buckets[hash(key) % 7];
}

struct entry *table_find(struct table *t, const char *key)
{
	for (struct entry *e = *bucket(t, key); e; e = e->next)
		if (same(e, key)) return e;
	return NULL;
}

int table_put(struct table *t, const char *key, int value)
{
	struct entry *e = table_find(t, key);
	if (!e) {
		e = calloc(1, sizeof *e);
		if (!e)
			return -1;
		memcpy(e->key, key, MIN(strlen(key), sizeof e->key - 1));
		struct entry **b = bucket(t, key);
		e->next = *b, *b = e;
		t->entries++;
	}
	e->value = value;
	return 0;
}

int table_remove(struct table *t, const char *key)
{
	struct entry **at = bucket(t, key);
	while (*at && !same(*at, key))
		at = &(*at)->next;
	if (!*at)
		return 0;
	struct entry *gone = *at;
	*at = gone->next;
	free(gone);
	return t->entries--, 1;
}

void table_clear(struct table *t)
{
	for (int i = 0; i < 7; i++) {
		struct entry *next;
		for (struct entry *e = t->buckets[i]; e; e = next) { next = e->next; free(e); }
		t->buckets[i] = NULL;
	}
	t->entries = 0;
}
