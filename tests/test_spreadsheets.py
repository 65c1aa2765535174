"""Texts in .csv files that a spreadsheet would compute are shown as they are, and come back as they were."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from trevision.spreadsheets import FORMULA, as_written, shown_as_text


@given(st.text(alphabet="='+-@\t\r1.5eab ", max_size=6))
@example("'=1")
@example("''-x")
def test_every_text_comes_back_and_none_is_a_formula(text):
    cell = shown_as_text(text)
    assert as_written(cell) == text
    if cell.startswith(FORMULA):
        float(cell)  # a number, which stays one


@pytest.mark.parametrize("number", ["-1", "+1", "-1.5", "-.5", "+2e-7", "-1E5"])
def test_numbers_stay_numbers(number):
    assert shown_as_text(number) == number


@pytest.mark.parametrize("text", ["=1+1", "+cmd", "-a", "-1-1", "@sum", "\tx", "\rx", "-1e", "-", "--1"])
def test_what_begins_as_a_formula_gets_an_apostrophe(text):
    assert shown_as_text(text) == f"'{text}"


@pytest.mark.parametrize("text", ["", "cat", "'tis", "a=b", "1-2"])
def test_other_texts_stay(text):
    assert shown_as_text(text) == as_written(text) == text
