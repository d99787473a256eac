#ifndef TABLE_H
#define TABLE_H

struct entry {
	char key[16];
	int value;
	struct entry *next;
};

struct table {
	struct entry *buckets[7];
	int entries;
};

#define MIN(a, b) ((a) < (b) ? (a) : (b))
#define ACCESSOR(name, field) \
	static inline int name(const struct table *t) { return t->field; }

ACCESSOR(table_size, entries)

static inline unsigned hash(const char *key)
{
	unsigned h = 5381;
	while (*key)
		h = h * 33 + (unsigned char)*key++;
	return h;
}

struct entry *table_find(struct table *t, const char *key);
int table_put(struct table *t, const char *key, int value);
int table_remove(struct table *t, const char *key);
void table_clear(struct table *t);

#endif
