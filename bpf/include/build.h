/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Stops a build whose compiler or flags are not the Makefile's: the committed objects are compared
 * with its output byte for byte. It is the first file that every program includes.
 */
#ifndef MAKE_GENERATE
#error "the Makefile sets the compiler and its flags: run `make generate`, not `go generate`"
#endif
