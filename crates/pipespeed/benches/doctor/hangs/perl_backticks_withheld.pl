# The end of the output is withheld by sleep, in the background.
use strict;

print `sleep 1000 & echo started`;
