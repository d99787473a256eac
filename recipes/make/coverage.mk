# Coverage by footfall. In a Makefile that puts what it makes into $(BUILD) and tests by
# "make check":
#
#   include coverage.mk      # after BUILD and CFLAGS were set, before they are used
#
#   make coverage            runs all tests, from zero, and reports
#   make coverage-report     reports what ran since, by tests or by hand
#
# What counts is built apart, below $(BUILD)/coverage.
FOOTFALL = footfall

ifdef COVERAGE
BUILD := $(BUILD)/coverage
# Atomic, so that threads lose no counts, and a running program can be read.
CFLAGS += --coverage -fprofile-update=atomic
CXXFLAGS += --coverage -fprofile-update=atomic
LDFLAGS += --coverage

coverage-reset:
	if test -d $(BUILD); then find $(BUILD) -name '*.gcda' -exec rm -f {} +; fi

coverage-run: coverage-reset
	status=0; $(MAKE) check || status=1; $(MAKE) coverage-report || status=1; exit $$status

coverage-report:
	$(FOOTFALL) report $(BUILD)
else
coverage:
	$(MAKE) COVERAGE=1 coverage-run

coverage-report:
	$(MAKE) COVERAGE=1 coverage-report
endif

.PHONY: coverage coverage-reset coverage-run coverage-report
