package tc

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
)

// A module is found where it is loaded, built in, or on the disk.
func TestHasModule(t *testing.T) {
	t.Parallel()
	const release = "6.1.0"
	for _, test := range []struct {
		name  string
		files map[string]string
		want  bool
	}{
		{"loaded", map[string]string{"sys/module/cls_bpf/refcnt": "0", "lib/modules/6.1.0/modules.dep": ""}, true},
		{"built in", map[string]string{"lib/modules/6.1.0/modules.builtin": "kernel/net/a.ko\nkernel/net/sched/cls_bpf.ko\n"}, true},
		{"on the disk", map[string]string{"lib/modules/6.1.0/modules.dep": "kernel/net/sched/cls_bpf.ko.xz: kernel/b.ko\n"}, true},
		{"another one", map[string]string{"lib/modules/6.1.0/modules.dep": "kernel/net/sched/my_cls_bpf.ko: kernel/b.ko\n"}, false},
		{"of another kernel", map[string]string{"lib/modules/5.1.0/modules.dep": "kernel/cls_bpf.ko:\n", "lib/modules/6.1.0/modules.builtin": ""}, false},
		{"nobody tells", nil, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			root := t.TempDir()
			for name, text := range test.files {
				path := filepath.Join(root, name)
				if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o644)); err != nil {
					t.Fatal(err)
				}
			}
			if got := hasModule(root, release, "cls_bpf"); got != test.want {
				t.Errorf("%v, want %v", got, test.want)
			}
		})
	}
}
