// Command shapes adds up areas.
package main

import (
	"fmt"
	"os"

	"example.org/shapes/shapes"
)

func main() {
	total := 0
	add := func(n int) { total += n }
	for i := range os.Args[1:] {
		if i%2 == 0 {
			add(shapes.Square{Side: i + 1}.Area())
		} else {
			add((&shapes.Box{Width: i, Height: 2}).Area())
		}
	}
	fmt.Println(total)
}

func never() {
	fmt.Println("never")
}
