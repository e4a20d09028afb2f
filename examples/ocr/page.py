"""The page that is read when no image is given: ten lines in two fonts and two sizes; and the picture of a result."""

from __future__ import annotations

from pathlib import Path

from PIL import Image, ImageDraw, ImageFont

LINES = ("The quick brown fox jumps over", "a lazy dog, 1234567890 times.", "Sphinx of black quartz,",
         "judge my vow: 42.50 + 7 = 49.50", "Pack my box with five dozen", "liquor jugs (and 3 more).",
         "Invoice no. 2024-118", "How vexingly quick daft zebras", "Amount due: $1,299.00",
         "Thank you for your visit!")
FONTS = ("DejaVuSans.ttf", "DejaVuSerif.ttf")
SIZES = (18, 26)
WIDTH, HEIGHT, ROW = 512, 448, 44
INK, MARK, SAID = (20, 20, 30), (220, 60, 40), (30, 90, 200)


def font(number: int, size: int) -> ImageFont.FreeTypeFont:
    """A font that comes with matplotlib."""
    import matplotlib
    return ImageFont.truetype(str(Path(matplotlib.get_data_path()) / "fonts" / "ttf" / FONTS[number]), size)


def opened(path: str | None) -> Image.Image:
    """An image file, or the page."""
    return drawn() if path is None else Image.open(path).convert("RGB")


def drawn() -> Image.Image:
    """The page: fonts take turns, sizes after each pair of lines."""
    page = Image.new("RGB", (WIDTH, HEIGHT), (252, 252, 248))
    pen = ImageDraw.Draw(page)
    for number, text in enumerate(LINES):
        pen.text((24, 10 + number * ROW), text, INK, font(number % 2, SIZES[number // 2 % 2]))
    return page


def picture(page: Image.Image, lines: list[tuple[tuple[int, int, int, int], str]]) -> Image.Image:
    """The page with the boxes of the lines, and beside it what was read."""
    both = Image.new("RGB", (2 * page.width, page.height), (255, 255, 255))
    both.paste(page)
    pen = ImageDraw.Draw(both)
    for box, text in lines:
        pen.rectangle(box, outline=MARK, width=2)
        pen.text((page.width + 24, (box[1] + box[3]) / 2), text, SAID, font(0, 20), anchor="lm")
    return both
