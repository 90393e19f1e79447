package main

var quick = []row{
	{"internal/tc", `TestA`},
	{"internal/privilege", `TestEnter TestCalls`},
	{"capture", `TestTransports`},
}
var quickOnARM64 = []row{}
var more = []row{}
var alone = map[string][]row{}
