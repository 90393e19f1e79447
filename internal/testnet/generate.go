package testnet

//go:generate go tool bpf2go -target bpfel generator ../../bpf/generator.c
//go:generate go tool bpf2go -target bpfel target ../../testdata/target.c
