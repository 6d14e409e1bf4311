"""The reliability campaign: damage, full disks, kills and hostile texts, counted by thousands."""
