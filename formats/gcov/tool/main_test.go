package tool

import (
	"os"
	"testing"

	"footfall/formats/gcov/fixtures"
)

func TestMain(m *testing.M) { os.Exit(fixtures.Main(m)) }
