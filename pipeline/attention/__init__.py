"""What models attended to: pairs worth a picture and their file."""
