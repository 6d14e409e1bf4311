"""The names that people give to columns of images, captions and splits, in tables and records."""

IMAGE_COLUMNS = (
    *("image", "filename", "file_name", "filepath", "file_path", "image_name", "image_path"),
    *("image_file", "img", "img_path", "img_name", "path", "file", "image_id"),
)
CAPTION_COLUMNS = (
    *("caption", "captions", "comment", "text", "texts", "title", "raw", "sentence", "sentences"),
    *("description", "report"),
)
SPLIT_COLUMNS = ("split", "set", "subset", "partition", "phase")
