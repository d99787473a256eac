# The shop of docs/tutorial.md runs, compiled with $SHOP, and ./ask sends it a line and prints the answer.
sed -n '/^\/\/ shop.c$/,/^```$/{/^```$/d;p}' "$ROOT/docs/tutorial.md" >shop.c
gcc -g $SHOP -o shop shop.c
mkfifo in out
printf '#!/bin/sh\necho "$@" >in; head -n 1 out\n' >ask
chmod +x ask
./shop <>in 1<>out &
./ask add 3 >/dev/null
