package main

// highestRate searches for the highest rate without loss by bisection between 0 and top, at which
// there is loss. It halves that interval `halvings` times. try tells whether there is loss at a
// rate, and which rate was reached. The result is a rate that was tried, or 0 if all had loss.
func highestRate(top float64, halvings int, try func(rate float64) (real float64, lossless bool, err error)) (float64, error) {
	low, high := 0.0, top
	for range halvings {
		middle := (low + high) / 2
		real, lossless, err := try(middle)
		if err != nil {
			return 0, err
		}
		if lossless {
			low = max(low, min(real, middle))
		} else {
			high = middle
		}
	}
	return low, nil
}
