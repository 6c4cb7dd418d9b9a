"""What the models say of the path and the control that were found, beside what was seen."""
