"""Finding text in shown lines."""

from tui.widgets.find import Hit, find_hits


def test_every_place_is_found_whatever_its_case() -> None:
    assert find_hits(["The sky. the SKY"], "sky") == [(Hit(0, 4, 7),), (Hit(0, 13, 16),)]


def test_a_text_that_a_line_end_parted_is_found() -> None:
    assert find_hits(["  why is", "  the sky blue"], "is the sky") == [
        (Hit(0, 6, 8), Hit(1, 2, 9)),
    ]


def test_cells_of_wide_characters_count_twice() -> None:
    assert find_hits(["漢字 sky"], "sky") == [(Hit(0, 5, 8),)]
    assert find_hits(["漢字漢字"], "字漢") == [(Hit(0, 2, 6),)]


def test_a_character_that_folds_to_two_is_found() -> None:
    assert find_hits(["die Straße hier"], "strasse") == [(Hit(0, 4, 10),)]


def test_nothing_is_found_of_nothing() -> None:
    assert find_hits(["abc"], "  ") == []
    assert find_hits([], "a") == []


def test_hits_do_not_overlap() -> None:
    assert find_hits(["aaaa"], "aa") == [(Hit(0, 0, 2),), (Hit(0, 2, 4),)]
