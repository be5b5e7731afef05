#include <stdio.h>

#include "sum.h"

int main(void) {
	if (sum(2, 3) != 5)
		return 1;
	puts("sums");
	return 0;
}
