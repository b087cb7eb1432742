# The end of the output is withheld by sleep, in the background.
text=$(sleep 1000 & echo started)
echo "$text"
