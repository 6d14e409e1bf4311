"""The dual path: an image CNN and a text CNN with instance loss (Zheng et al. 2020)."""
