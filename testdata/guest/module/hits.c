// A kernel module whose counters are known: it counts what is written to
// /sys/module/hits/parameters/hit.
#include <linux/module.h>

static int odd, even;

static int hit(const char *text, const struct kernel_param *param)
{
	int n, err = kstrtoint(text, 0, &n);

	if (err)
		return err;
	if (n % 2)
		odd++;
	else
		even++;
	return 0;
}

static int hits(char *text, const struct kernel_param *param)
{
	return sprintf(text, "%d odd, %d even\n", odd, even);
}

static const struct kernel_param_ops ops = { .set = hit, .get = hits };
module_param_cb(hit, &ops, NULL, 0600);
MODULE_LICENSE("GPL");
