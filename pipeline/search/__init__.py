"""An index of scored images and captions, and the page of what was found."""
