PYTHON ?= python3
BIN := .venv/bin

.PHONY: setup lint type test cov bench clean

setup:  ## a virtual environment with everything, in the tested versions
	$(PYTHON) -m venv .venv
	$(BIN)/pip install -c constraints.txt -e ".[dev]"

lint:
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

type:
	$(BIN)/mypy
	$(BIN)/pyright --pythonpath $(BIN)/python

test:
	$(BIN)/pytest

cov:
	$(BIN)/pytest --cov --cov-report=term-missing:skip-covered

bench:
	$(BIN)/python bench/report.py --quick results

clean:
	rm -rf build dist htmlcov .coverage .mypy_cache .pytest_cache .ruff_cache .hypothesis *.egg-info
	find . -name __pycache__ -not -path "./.venv/*" -prune -exec rm -rf {} +
