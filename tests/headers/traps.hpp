#pragma once

// Macros that other people's headers are known to define, set to something that cannot be parsed: a header of ours that
// uses such a name as an identifier breaks here and not in a consumer's build. min and max are not among them: where
// <windows.h> defines those, NOMINMAX is the remedy, and (std::max)(a, b) all over is not worth it.

#define I ? complex.h
#define B0 ? termios.h
#define ECHO ? termios.h
#define major(x) ? sys / sysmacros.h
#define minor(x) ? sys / sysmacros.h
#define makedev(x, y) ? sys / sysmacros.h
#define small ? windows.h
#define near ? windows.h
#define far ? windows.h
#define interface ? windows.h
#define IN ? windows.h
#define OUT ? windows.h
#define ERROR ? windows.h
#define DELETE ? windows.h
#define None ? X11
#define Bool ? X11
#define Status ? X11
#define Success ? X11
#define Always ? X11
#define True ? X11
#define False ? X11
#define CHECK(...) ? glog, torch
#define LOG(...) ? glog
#define F(x) ? Arduino
