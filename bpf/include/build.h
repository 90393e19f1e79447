/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Stops a build with another compiler or other flags than the Makefile's, because the committed
 * objects are compared with the output byte for byte. Every program includes this file first.
 */
#ifndef MAKE_GENERATE
#error "the Makefile sets the compiler and its flags: run `make generate`, not `go generate`"
#endif
