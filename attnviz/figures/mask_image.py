"""A mask as a small image."""

from markupsafe import Markup

from attnviz.masks import Mask

CELLS = 16
ALLOWED, MASKED = "#217bd6", "#8c847a46"  # seen on both themes
_IMAGE = Markup(
    '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {0} {0}" shape-rendering="crispEdges">'
    '<rect width="{0}" height="{0}" fill="{1}"></rect><path d="{2}" fill="{3}"></path></svg>'
)


def mask_image(mask: Mask) -> Markup:
    """Returns an SVG image of a mask of CELLS queries and keys, which a page can hold itself."""
    cells = [
        f"M{column},{row}h1v1h-1z"
        for row, allowed in enumerate(mask.matrix(CELLS, CELLS).tolist())
        for column in range(CELLS)
        if allowed[column]
    ]
    return _IMAGE.format(CELLS, MASKED, "".join(cells), ALLOWED)
