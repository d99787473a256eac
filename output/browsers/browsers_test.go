package browsers

import "testing"

func TestKnownHost(t *testing.T) {
	names := []string{"Build.example.org"}
	for _, host := range []string{
		"127.0.0.1:8080", "127.0.0.1", "[::1]:8080", "[::1]", "192.0.2.7:80",
		"localhost", "LOCALHOST:80", "x.localhost:80", "localhost.:80", "build.EXAMPLE.org:443",
	} {
		if !KnownHost(host, names) {
			t.Errorf("%s is taken for another host", host)
		}
	}
	for _, host := range []string{
		"", "example.org", "example.org:80", "notlocalhost:80", "localhost.example.org:80", "127.0.0.1.example.org", "x.build.example.org",
	} {
		if KnownHost(host, names) {
			t.Errorf("%s is taken for our own host", host)
		}
	}
}
