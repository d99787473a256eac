# FOOTFALL_COVERAGE
#
# Adds --enable-coverage to configure. Stands before AC_PROG_CC, since optimized code is
# harder to read as coverage: without CFLAGS of the user there is none then. Sets
#
#   COVERAGE_CFLAGS, COVERAGE_CXXFLAGS, COVERAGE_LDFLAGS   for AM_CFLAGS and so on
#   FOOTFALL                                               the program
#
# and the condition FOOTFALL_COVERAGE, for the rules in footfall.am.
AC_DEFUN([FOOTFALL_COVERAGE], [
  AC_BEFORE([$0], [AC_PROG_CC])
  AC_BEFORE([$0], [AC_PROG_CXX])
  AC_ARG_ENABLE([coverage],
    [AS_HELP_STRING([--enable-coverage], [count what runs; make coverage reports it])],
    [], [enable_coverage=no])
  AM_CONDITIONAL([FOOTFALL_COVERAGE], [test "x$enable_coverage" != xno])
  AC_ARG_VAR([FOOTFALL], [the program that reports coverage])
  AS_IF([test "x$enable_coverage" != xno], [
    AC_PATH_PROG([FOOTFALL], [footfall])
    AS_IF([test -z "$FOOTFALL"], [AC_MSG_ERROR([--enable-coverage needs footfall in PATH, or FOOTFALL=])])
    : ${CFLAGS="-g -O0"}
    : ${CXXFLAGS="-g -O0"}
    # Atomic, so that threads lose no counts, and a running program can be read.
    COVERAGE_CFLAGS="--coverage -fprofile-update=atomic"
    COVERAGE_CXXFLAGS=$COVERAGE_CFLAGS
    COVERAGE_LDFLAGS="--coverage"
  ])
  AC_SUBST([COVERAGE_CFLAGS])
  AC_SUBST([COVERAGE_CXXFLAGS])
  AC_SUBST([COVERAGE_LDFLAGS])
])
