package testnet

//go:generate go tool bpf2go -target bpfel -cc clang-19 -strip llvm-strip-19 -cflags "-O2 -Wall -Wextra -Werror -I/usr/include/x86_64-linux-gnu" generator ../../bpf/generator.c
//go:generate go tool bpf2go -target bpfel -cc clang-19 -strip llvm-strip-19 -cflags "-O2 -mcpu=v3 -Wall -Wextra -Werror -I/usr/include/x86_64-linux-gnu" target ../../testdata/target.c
//go:generate go tool bpf2go -target bpfel -cc clang-19 -strip llvm-strip-19 -cflags "-O2 -mcpu=v3 -Wall -Wextra -Wno-unused-parameter -Werror -I/usr/include/x86_64-linux-gnu" dispatcher ../../testdata/dispatcher.c
