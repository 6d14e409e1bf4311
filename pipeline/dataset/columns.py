"""The names that people give to columns of images, captions and splits, in tables and records."""

IMAGE_COLUMNS = (
    *("image", "filename", "file_name", "filepath", "file_path", "image_name", "image_path"),
    *("image_file", "img", "img_path", "img_name", "photo", "picture", "path", "file"),
    *("image_id", "image_url", "url"),
)
CAPTION_COLUMNS = (
    *("caption", "captions", "comment", "text", "texts", "title", "raw", "sentence", "sentences"),
    *("description", "report", "cap", "alt_text", "prompt"),
)
SPLIT_COLUMNS = ("split", "set", "subset", "partition", "phase")


def plain_name(name: str) -> str:
    """The name of a column as the lists above have it: `File Name` is `file_name`."""
    words = name.strip().strip('"').lower().replace("-", " ").split()
    return "_".join(words)
