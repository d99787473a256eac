package growth

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// Human writes a number in at most five columns: 0.5, 999, 1.2k, 345M.
func Human(n float64) string {
	switch {
	case n == 0:
		return "0"
	case n < 0.05:
		return "0.0"
	case n < 10 && n != math.Trunc(n):
		return strconv.FormatFloat(n, 'f', 1, 64)
	}
	if n = math.Round(n); n < 1000 {
		return strconv.Itoa(int(n))
	}
	const units = "kMGTPE"
	unit := -1
	for n >= 999.5 && unit < len(units)-1 {
		n /= 1000
		unit++
	}
	if n < 9.95 {
		return strconv.FormatFloat(n, 'f', 1, 64) + units[unit:unit+1]
	}
	return strconv.Itoa(int(math.Round(n))) + units[unit:unit+1]
}

// Clock writes a time as 0:05, 12:34 or 1:02:03.
func Clock(d time.Duration) string {
	s := int(d.Seconds())
	if s < 3600 {
		return fmt.Sprintf("%d:%02d", s/60, s%60)
	}
	return fmt.Sprintf("%d:%02d:%02d", s/3600, s/60%60, s%60)
}

// Sparkline draws numbers as bars of one column, the largest as the highest.
func Sparkline(numbers []float64) string {
	most := 0.0
	for _, n := range numbers {
		most = max(most, n)
	}
	var b strings.Builder
	for _, n := range numbers {
		b.WriteString(Bar(n, most))
	}
	return b.String()
}

// Bar returns a bar of one column; something is more than nothing.
func Bar(n, most float64) string {
	const bars = "▁▂▃▄▅▆▇█"
	if n <= 0 || most <= 0 {
		return " "
	}
	i := int(math.Ceil(n/most*8)) - 1
	return string([]rune(bars)[min(max(i, 0), 7)])
}
