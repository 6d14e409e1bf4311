"""The page that `dvc plots` writes, with Vega's scripts in it instead of addresses of them."""

from pipeline.runtime.errors import WorkbenchError

# the last of version 5, which the templates of DVC and of .dvc/plots are written for
VEGA_LITE = "5.21"
PAGE = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
{refresh_tag}
<title>DVC plots</title>
<style>
body { font-family: sans-serif; margin: 1rem; }
div { margin-bottom: 1rem; }
</style>
<script type="text/javascript">
SCRIPTS
</script>
</head>
<body>
<main>
<h1>DVC plots</h1>
{plot_divs}
</main>
</body>
</html>
"""

# Vega's menu of a chart has an icon, and no name for screen readers.
EMBED = """window.vegaEmbed = (...chart) => vegaEmbed(...chart).then((drawn) => {
  for (const menu of document.querySelectorAll("summary")) menu.ariaLabel = "save or show";
  return drawn;
});"""


def page_template() -> str:
    """A template for DVC's `plots.html_template` that needs no network."""
    try:
        import vl_convert
    except ModuleNotFoundError:
        raise WorkbenchError(
            "vl-convert-python is not installed: it carries the scripts of Vega",
            "pip install --constraint constraints.txt --editable '.[plots]'",
        ) from None
    scripts = vl_convert.javascript_bundle(EMBED, vl_version=VEGA_LITE)
    return PAGE.replace("SCRIPTS", scripts.replace("</script", "<\\/script"))
