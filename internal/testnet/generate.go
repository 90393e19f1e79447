package testnet

//go:generate go tool bpf2go -target bpfel generator ../../bpf/generator.c
//go:generate go tool bpf2go -target bpfel target ../../testdata/target.c
//go:generate go tool bpf2go -target bpfel redirect ../../testdata/redirect.c
//go:generate go tool bpf2go -target bpfel reasons ../../testdata/reasons.c
//go:generate go tool bpf2go -target bpfel dispatcher ../../testdata/dispatcher.c
