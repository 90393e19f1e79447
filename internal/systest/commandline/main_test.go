package commandline_test

import (
	"testing"

	"github.com/xdpcap/xdpcap/internal/systest"
)

func TestMain(m *testing.M) { systest.Main(m) }
