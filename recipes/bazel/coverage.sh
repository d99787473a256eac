#!/bin/sh
# Runs all tests, from zero, and reports, also if some fail.
#
#   ./coverage.sh [OPTION OF BAZEL...]
cd "$(dirname "$0")" || exit 1
rm -rf coverage-data
status=0
bazel test --config=coverage --test_env=GCOV_PREFIX="$PWD/coverage-data" "$@" //... || status=1
footfall report coverage-data || status=$?
exit $status
